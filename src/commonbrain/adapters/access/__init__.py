"""Who may call: keys and tokens told apart and checked, rates counted, refusals written down."""
