"""Operations: one table that every transport is built from."""
