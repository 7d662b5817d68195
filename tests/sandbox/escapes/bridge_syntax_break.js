// closing the wrapper
// ends: error
}); evil(); (async function () {
