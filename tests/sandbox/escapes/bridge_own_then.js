// a reply that looks thenable
// ends: value {"then":1}
return await demo.echo({ then: 1 });
