"""What calls may do: rules, approvals, pins, the flow of data, and the record of all of it."""
