"""How serve and webhook start, listen and end."""
