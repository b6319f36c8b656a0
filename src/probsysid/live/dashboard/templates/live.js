// Axes and legends in ink that can be read on the page's background.
const dark = window.matchMedia("(prefers-color-scheme: dark)")
function paint() {
  const ink = dark.matches ? "#eeeeee" : "#222222"
  for (const doc of Bokeh.documents) {
    for (const model of doc.all_models ?? doc._all_models.values()) {
      if (model.type === "LinearAxis") {
        model.axis_label_text_color = model.major_label_text_color = model.axis_line_color = ink
        model.major_tick_line_color = model.minor_tick_line_color = ink
      } else if (model.type === "Title") {
        model.text_color = ink
      } else if (model.type === "Legend") {
        model.label_text_color = ink
        model.background_fill_alpha = 0
      }
    }
  }
}
paint()
dark.addEventListener("change", paint)
