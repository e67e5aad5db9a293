"""What is done to pictures and to questions before judges are asked again."""
