"""What the host does in a call, as data that launchers of all languages are made of."""
