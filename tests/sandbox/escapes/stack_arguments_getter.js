// arguments that make calls while they are read
// ends: error StackError limit.stack
const make = () => ({ get a() { return demo.echo(make()); } }); await demo.echo(make()); return 1;
