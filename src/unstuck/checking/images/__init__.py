"""Images: what their structure shows, and what decoding shows."""
