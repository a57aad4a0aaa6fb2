"""Screen code that is no page: the frame, the forms, the choices every page shares, panels as
widgets."""
