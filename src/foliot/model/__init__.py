"""What Foliot's words mean: frozen data and the rules over it. No I/O, no clock, no asyncio."""
