"""The command line: tables for people, JSON for programs, and a start that loads nothing heavy."""
