// Downsample the samples in view by the rule of html/downsample.py.  Bokeh calls this as the body of a function with the
// arguments full and view (data sources), range (the range in view), keys (columns whose extremes stay) and bins.
const all = full.data, time = all.time, n = time.length;
const before = (value) => {
  let low = 0, high = n;
  while (low < high) { const mid = (low + high) >> 1; if (time[mid] < value) low = mid + 1; else high = mid; }
  return low;
};
const first = Math.max(0, before(range.start) - 1), last = Math.min(n, before(range.end) + 1);
const count = last - first, keep = new Set();
if (count <= bins * (2 + 2 * keys.length)) {
  for (let i = first; i < last; i++) keep.add(i);
} else {
  for (let b = 0; b < bins; b++) {
    const from = first + Math.floor(count * b / bins), to = first + Math.floor(count * (b + 1) / bins);
    keep.add(from); keep.add(to - 1);
    for (const key of keys) {
      const values = all[key];
      let low = -1, high = -1;
      for (let i = from; i < to; i++) {
        if (Number.isNaN(values[i])) continue;
        if (low < 0 || values[i] < values[low]) low = i;
        if (high < 0 || values[i] > values[high]) high = i;
      }
      if (low >= 0) { keep.add(low); keep.add(high); }
    }
  }
}
const order = Array.from(keep).sort((a, b) => a - b), shown = {};
for (const name of Object.keys(all)) shown[name] = Float64Array.from(order, (i) => all[name][i]);
view.data = shown;
