"""The SDK: `Foliot`, job functions, handles."""
