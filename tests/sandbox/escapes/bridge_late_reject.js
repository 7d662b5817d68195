// calls rejected after the end
// ends: value 1
demo.fail({ message: "late" }).catch(() => { for (let i = 0; i < 10; i++) demo.echo({ i }); }); return 1;
