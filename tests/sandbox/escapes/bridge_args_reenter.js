// a getter of the arguments that calls again each time it is read
// ends: error
return await demo.echo({ get x() { return demo.echo({ y: 1 }); } });
