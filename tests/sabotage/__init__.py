"""Acts of sabotage, one at a time: each has to turn the right thing red (`make sabotage`)."""
