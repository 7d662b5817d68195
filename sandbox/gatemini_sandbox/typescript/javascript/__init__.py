"""Make TypeScript JavaScript in place: types are erased, constructs with code written out, the value returned."""
