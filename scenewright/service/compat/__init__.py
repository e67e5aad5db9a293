"""Routes in the formats of other image APIs."""
