// calls that make calls after the end
// ends: value 1
const again = () => demo.echo({}).then(again); again(); return 1;
