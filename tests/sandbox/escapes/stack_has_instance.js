// instanceof that asks itself
// ends: error StackError limit.stack
class A { static [Symbol.hasInstance](v) { return v instanceof A; } } return 1 instanceof A;
