"""Forms and first looks of a text that several rooms share; `forms.md` compares the forms."""
