// What pages gain with JavaScript: they refresh themselves, charts can be read off, and all tasks of a page selected at once. Without it they say the same.
const EVERY_MS = 5000
const HEIGHT = 180
/** Room for a time of day. */
const TIME_WIDTH = 90
const plots = new WeakMap()

document.documentElement.classList.add('scripted')

/** Draws each chart, or gives it the figures that have come since. */
function drawAll() {
  for (const figure of document.querySelectorAll('figure.chart')) {
    const place = figure.querySelector('.plot')
    const { names, times, values } = JSON.parse(figure.dataset.chart)
    const data = [times, ...values]
    const known = plots.get(place)
    if (known) known.setData(data)
    else if (times.length > 1) plots.set(place, draw(place, names, data))
  }
}

function draw(place, names, data) {
  const colors = getComputedStyle(place)
  const color = name => colors.getPropertyValue(name).trim()
  const line = { stroke: color('--line'), width: 1 }
  const axis = { stroke: color('--quiet'), grid: line, ticks: line }
  const series = names.map((label, i) => ({
    label,
    stroke: color(`--series-${i + 1}`),
    dash: [[], [6, 3], [2, 3]][i % 3], // told apart without colour, too
    width: 2,
    points: { show: false },
    value: (_, value) => (value === null ? '–' : String(Math.round(value * 10) / 10)),
  }))
  const options = {
    width: place.clientWidth || 300,
    padding: [null, TIME_WIDTH / 3, null, null], // half of the last time
    height: HEIGHT,
    scales: { y: { range: (_, _low, high) => [0, Math.max(1, high * 1.1)] } },
    series: [{ value: (_, seconds) => (seconds === null ? '–' : timeOfDay(seconds)) }, ...series],
    axes: [
      { ...axis, space: TIME_WIDTH, values: (_, all) => all.map(timeOfDay) },
      { ...axis, size: 56 },
    ],
    cursor: { drag: { x: false, y: false } },
  }
  return new uPlot(options, data, place)
}

function timeOfDay(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString([], { hourCycle: 'h23' })
}

function forgetAll() {
  for (const place of document.querySelectorAll('.plot')) {
    plots.get(place)?.destroy()
    plots.delete(place)
  }
  drawAll()
}

/** People read, select and copy: they can stop the refreshing, and a hidden tab does not refresh. */
function refreshUnlessStopped(button) {
  let isStopped = sessionStorage.getItem('refreshing') === 'stopped'
  const show = () => {
    button.hidden = false
    button.textContent = isStopped ? 'Resume live updates' : 'Stop live updates'
  }
  button.addEventListener('click', () => {
    isStopped = !isStopped
    sessionStorage.setItem('refreshing', isStopped ? 'stopped' : 'live')
    show()
  })
  show()
  setInterval(() => {
    const isReading = document.querySelector('#live details[open]') !== null
    if (!isStopped && !isReading && !document.hidden) htmx.trigger(document.body, 'refresh')
  }, EVERY_MS)
}

/** All check boxes of a listing at once, and how many are ticked; nothing can be done to none. */
function followChoice(form) {
  const [all, count] = [form.querySelector('#select-all'), form.querySelector('output')]
  const boxes = [...form.elements].filter(({ name }) => name === 'ref')
  const show = () => {
    const ticked = boxes.filter(({ checked }) => checked).length
    all.checked = ticked === boxes.length
    all.indeterminate = ticked > 0 && ticked < boxes.length
    count.value = ticked === 0 ? 'none selected' : `${ticked} of ${boxes.length} selected`
    for (const button of form.querySelectorAll('button')) button.disabled = ticked === 0
  }
  all.addEventListener('change', () => {
    for (const box of boxes) box.checked = all.checked
    show()
  })
  for (const box of boxes) box.addEventListener('change', show)
  addEventListener('pageshow', show) // a browser that goes back ticks what was ticked
  form.querySelector('.choice').hidden = false
  show()
}

drawAll()
// on a phone the list of pages is one line, which may begin too far to the left
document.querySelector('.pages [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
const choice = document.querySelector('#choice')
if (choice !== null) followChoice(choice)
document.addEventListener('htmx:after:swap', drawAll)
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', forgetAll)
let width = innerWidth
addEventListener('resize', () => {
  if (innerWidth !== width) forgetAll()
  width = innerWidth
})
const button = document.querySelector('#refreshing')
if (button !== null && document.querySelector('#live') !== null) refreshUnlessStopped(button)
