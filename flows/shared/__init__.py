"""Steps that several flows share, and checks of what users give them. Flows import no other flow."""
