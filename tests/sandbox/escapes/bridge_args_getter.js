// arguments whose getters throw
// ends: value {"x":"[Throws: no]"}
return await demo.echo({ get x() { throw new Error("no"); } });
