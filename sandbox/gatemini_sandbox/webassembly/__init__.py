"""The guest in WebAssembly: its module, its engine, its machines and the C interface of QuickJS in them."""
