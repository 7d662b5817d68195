// The chain's timers, the most due first: a binary heap by time, then age.
//
// A list that is searched for each of thousands of timers due at once would take minutes. A dropped timer stays in the
// heap until it comes up, or until most of the heap is dropped ones. The rules of values.js hold.
(function (values) {
  "use strict";
  const { own, list } = values;
  const known = new own.Map(); // id -> timer
  let heap = list();
  let nextId = 1;

  const before = (a, b) => a.due < b.due || (a.due === b.due && a.id < b.id);

  function rise(timer, at) {
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!before(timer, heap[above])) break;
      heap[at] = heap[above];
      at = above;
    }
    heap[at] = timer;
  }
  function sink(timer, at) {
    const size = heap.length;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= size) break;
      if (below + 1 < size && before(heap[below + 1], heap[below])) below++;
      if (!before(heap[below], timer)) break;
      heap[at] = heap[below];
      at = below;
    }
    heap[at] = timer;
  }
  function takeTop() {
    const last = heap[heap.length - 1];
    heap.length--;
    if (heap.length > 0) sink(last, 0);
  }

  function add(due, period, callback, args) {
    const timer = { __proto__: null, id: nextId++, due, period, callback, args };
    own.mapSet(known, timer.id, timer);
    rise(timer, heap.length);
    return timer.id;
  }
  function drop(id) {
    const timer = own.mapGet(known, id);
    if (timer === undefined) return;
    own.mapDelete(known, id);
    timer.callback = timer.args = null; // frees what they hold
    if (heap.length > 2 * own.mapSize(known) + 64) sweep();
  }
  function sweep() {
    const kept = list();
    for (let i = 0; i < heap.length; i++) if (heap[i].callback !== null) kept[kept.length] = heap[i];
    heap = kept;
    for (let at = (heap.length >> 1) - 1; at >= 0; at--) sink(heap[at], at);
  }
  function earliest() {
    while (heap.length > 0 && heap[0].callback === null) takeTop();
    return heap.length > 0 ? heap[0] : null;
  }
  function again(timer, due) {
    // Moves the timer that is most due to a later time.
    timer.due = due;
    sink(timer, 0);
  }

  return { __proto__: null, add, drop, earliest, again, count: () => own.mapSize(known) };
})
