"""Tables of AMD's instruction sets, which the modelled GPU decodes machine code with."""
