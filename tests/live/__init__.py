"""What only a real deployment can show: `python -m tests.live.probe --url … --key …` (DESIGN §10)."""
