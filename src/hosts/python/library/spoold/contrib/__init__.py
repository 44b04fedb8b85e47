"""What frameworks and libraries need to work with spoold. Each module needs that one, and nothing here is loaded by spoold."""
