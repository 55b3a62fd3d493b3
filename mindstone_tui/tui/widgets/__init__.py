"""What the screens are made of; each widget draws values it is handed and asks for nothing."""
