// Words at the head of the page, as text: nothing of them is taken for HTML.
const keys = status.data.key, texts = status.data.text
for (let j = 0; j < keys.length; j++) {
  if (keys[j] === "level") {
    document.getElementById("verdict").className = texts[j]
    continue
  }
  const place = document.getElementById(keys[j])
  if (place && place.textContent !== texts[j]) place.textContent = texts[j]
}
