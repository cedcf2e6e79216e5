import { type Signal, useSignal } from '@preact/signals'
import { html } from 'htm/preact'
import type { VNode } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { ownValue } from '../base/own-value.ts'
import { formatNumber } from '../ui/format.ts'
import { formatDay, formatShortDay } from './period.ts'
import type { UsageDay } from './usage-lines.ts'

/** One of the two plots. Each day has a bar for a sum. In front of this bar, another bar shows a part of the sum. */
interface PlotKind {
  readonly height: number
  readonly sum: (day: UsageDay) => number
  readonly part: (day: UsageDay) => number
  /** CSS variables: the colour of the rest of the sum, and the colour of the part. */
  readonly restColour: string
  readonly partColour: string
  readonly hasDays: boolean
}

const tokens: PlotKind = {
  height: 190,
  sum: (day) => day.prompt_tokens + day.completion_tokens,
  part: (day) => day.prompt_tokens,
  restColour: '--plot-completion',
  partColour: '--plot-prompt',
  hasDays: false,
}

const requests: PlotKind = {
  height: 150,
  sum: (day) => day.requests,
  part: (day) => day.failed,
  restColour: '--plot-requests',
  partColour: '--plot-failed',
  hasDays: true,
}

/** Two plots over the same days: tokens and requests. A day is chosen with the pointer or with the arrow keys. */
export function DayPlot({ days }: { readonly days: readonly UsageDay[] }): VNode {
  const tokensPlace = useRef<HTMLDivElement>(null)
  const requestsPlace = useRef<HTMLDivElement>(null)
  const plots = useRef<readonly uPlot[]>([])
  const index = useSignal<number | null>(null)
  const isDark = useIsDark()
  useEffect(() => {
    index.value = null
    const { current: above } = tokensPlace
    const { current: below } = requestsPlace
    return above && below
      ? show(plots, [drawn(above, tokens, days, index), drawn(below, requests, days, index)])
      : undefined
  }, [days, isDark.value])

  const last = days.length - 1
  const at = Math.min(index.value ?? last, last)
  const day = days[at]
  const onKeyDown = (event: KeyboardEvent) => {
    const next = dayForKey(event.key, index.value, last)
    if (next === undefined) return
    event.preventDefault()
    index.value = next
    for (const plot of plots.current) plot.setCursor({ left: plot.valToPos(next, 'x'), top: 0 }, false)
  }
  return html`
    <div class="panel day-plot">
      <div class="plots" role="slider" tabindex="0" aria-label="Use of a day; the arrow keys choose it" aria-valuemin="0" aria-valuemax=${last}
        aria-valuenow=${at} aria-valuetext=${day && wordsOf(day)} onKeyDown=${onKeyDown}>
        <p class="row faint legend"><${Swatch} of=${tokens.partColour} /> Prompt tokens <${Swatch} of=${tokens.restColour} /> Completion tokens</p>
        <div ref=${tokensPlace}></div>
        <p class="row faint legend"><${Swatch} of=${requests.restColour} /> Requests <${Swatch} of=${requests.partColour} /> of them failed</p>
        <div ref=${requestsPlace}></div>
      </div>
      <p class="readout">${index.value === null || !day ? 'Point at a day, or choose it with the arrow keys.' : wordsOf(day)}</p>
    </div>
  `
}

function Swatch({ of: colour }: { readonly of: string }): VNode {
  return html`<span class="swatch" style=${{ background: `var(${colour})` }}></span>`
}

/** The usage of a day as a sentence. */
function wordsOf(day: UsageDay): string {
  const asked = day.requests === 1 ? '1 request' : `${formatNumber(day.requests)} requests`
  const failed = day.failed === 0 ? '' : `, ${formatNumber(day.failed)} failed`
  const used = `${formatNumber(day.prompt_tokens)} prompt tokens, ${formatNumber(day.completion_tokens)} completion tokens`
  return `${formatDay(day.day)}: ${asked}${failed}, ${used}`
}

/** The index of the day that a key chooses; undefined for other keys. */
function dayForKey(key: string, from: number | null, last: number): number | undefined {
  if (key === 'Home') return 0
  if (key === 'End') return last
  const step = ownValue({ ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -7, PageUp: 7 }, key)
  if (step === undefined) return undefined
  // At first the slider is at the last day, so the first key press chooses the last day.
  return from === null ? last : Math.max(0, Math.min(last, from + step))
}

function useIsDark(): Signal<boolean> {
  const query = matchMedia('(prefers-color-scheme: dark)')
  const isDark = useSignal(query.matches)
  useEffect(() => {
    const note = () => {
      isDark.value = query.matches
    }
    query.addEventListener('change', note)
    return () => query.removeEventListener('change', note)
  }, [])
  return isDark
}

/** Keeps plots as wide as their elements. @returns a function that removes the plots */
function show(kept: { current: readonly uPlot[] }, plots: readonly uPlot[]): () => void {
  kept.current = plots
  const observer = new ResizeObserver(() => {
    for (const plot of plots) {
      const width = plot.root.parentElement?.clientWidth ?? 0
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: plot.height })
    }
  })
  for (const { root } of plots) if (root.parentElement) observer.observe(root.parentElement)
  return () => {
    observer.disconnect()
    kept.current = []
    for (const plot of plots) plot.destroy()
  }
}

/** The steps between the marks of an axis. They are whole numbers, as the numbers of requests and tokens are. */
const wholeSteps = Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat()
const daySteps = [1, 2, 7, 14, 28, 56, 91, 182, 364, 728, 1820, 3640, 7280]
const short = new Intl.NumberFormat(undefined, { notation: 'compact' })

/** Draws a plot. A canvas cannot use CSS variables, so the function reads the current values of the variables. */
function drawn(place: HTMLElement, kind: PlotKind, days: readonly UsageDay[], index: Signal<number | null>): uPlot {
  const colourOf = coloursOf(place)
  const axis = {
    stroke: colourOf('--faint'),
    grid: { stroke: colourOf('--line'), width: 1 },
    ticks: { show: false },
    font: `12px ${getComputedStyle(place).fontFamily}`,
  }
  const bars = uPlot.paths.bars?.({ size: [0.75, 40] })
  const series = (label: string, colour: string): uPlot.Series => ({
    label,
    fill: colourOf(colour),
    width: 0,
    points: { show: false },
    ...(bars ? { paths: bars } : {}),
  })
  const options: uPlot.Options = {
    width: Math.max(1, place.clientWidth),
    height: kind.height - (kind.hasDays ? 0 : 25),
    padding: [8, 8, kind.hasDays ? 0 : 4, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { show: false },
      drag: { x: false, y: false, setScale: false },
      sync: { key: 'usage' },
    },
    scales: {
      x: { time: false, range: () => [-0.5, days.length - 0.5] },
      y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.05)] },
    },
    axes: [
      {
        ...axis,
        show: kind.hasDays,
        space: 70,
        size: 25,
        incrs: daySteps,
        grid: { show: false },
        values: (_plot, splits) => splits.map((split) => formatShortDay(days[split]?.day ?? '')),
      },
      {
        ...axis,
        size: 55,
        space: 32,
        incrs: wholeSteps,
        values: (_plot, splits) => splits.map((split) => short.format(split)),
      },
    ],
    series: [{}, series('rest', kind.restColour), series('part', kind.partColour)],
    hooks: {
      setCursor: [
        ({ cursor }) => {
          index.value = cursor.idx ?? null
        },
      ],
    },
  }
  return new uPlot(options, [days.map((_day, position) => position), days.map(kind.sum), days.map(kind.part)], place)
}

/** Returns a function that reads the current colour of a CSS variable. */
function coloursOf(place: HTMLElement): (name: string) => string {
  return (name) => {
    const probe = document.createElement('span')
    probe.style.color = `var(${name})`
    place.append(probe)
    const { color } = getComputedStyle(probe)
    probe.remove()
    return color
  }
}
