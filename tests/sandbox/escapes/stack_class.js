// constructors that construct
// ends: error StackError limit.stack
class A { x = new A(); } return new A();
