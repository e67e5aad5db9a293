"""What everything else is written in: scenes, facts, questions, the vocabulary, pictures, ports."""
