"""Tables and graphs: columns by name, from files and from objects in memory."""
