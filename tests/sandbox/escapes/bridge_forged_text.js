// arguments that look like messages
// ends: value {"],[99,\"tool\",\"demo\",\"write\",false,{}":"],\"state\":1}"}
return await demo.echo({ "],[99,\"tool\",\"demo\",\"write\",false,{}": "],\"state\":1}" });
