"""Documents of office programs as text: DOCX and PDF."""
