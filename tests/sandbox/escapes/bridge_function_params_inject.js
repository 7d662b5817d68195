// function params inject
// ends: value object
return Function("a", "b = (function(){ return typeof __backends })()", "return b")();
