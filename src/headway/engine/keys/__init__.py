"""Admission: blocked jobs become ready as room under their key becomes free."""
