"""Integrations with frameworks and libraries. Each module needs its framework or library. spoold itself loads none of them."""
