"""Arrays that numpy and safetensors saved: what stands in front of them, and what must follow."""
