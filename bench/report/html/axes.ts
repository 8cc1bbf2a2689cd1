/** Scales and ticks of plots: linear, logarithmic, and by nines for percentiles (pure). */

export interface Axis {
  /** What is drawn along it, with its unit. */
  label: string
  /** 0 at the start of the axis, 1 at its end; values beyond stay inside. */
  place(value: number): number
  ticks: { at: number; label: string }[]
}

/** A start from zero, and round numbers: about `count` of them. */
export function linearAxis(label: string, max: number, format = shortNumber, count = 5): Axis {
  const step = roundStep(Math.max(max, Number.MIN_VALUE) / count)
  const top = Math.max(Math.ceil(max / step - 1e-9), 1) * step
  const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, index) => index * step)
  return { label, place: (value) => clamp(value / top), ticks: ticks.map((at) => ({ at, label: format(at) })) }
}

/** The whole of a time axis is data, so it ends where they end. */
export function timeAxis(seconds: number): Axis {
  const step = roundStep(seconds / 8)
  const ticks = Array.from({ length: Math.floor(seconds / step + 1e-9) + 1 }, (_, index) => index * step)
  return {
    label: 'seconds',
    place: (value) => clamp(value / seconds),
    ticks: ticks.map((at) => ({ at, label: shortNumber(at) })),
  }
}

/** From one round number to another: decades, with 2 and 5 between them where there are few. */
export function logAxis(label: string, min: number, max: number, format = shortNumber): Axis {
  const marks = Math.log10(max / min) > 3 ? [1] : [1, 2, 5]
  const decades = Array.from({ length: 25 }, (_, index) => index - 12)
  const all = decades.flatMap((decade) => marks.map((mark) => mark * 10 ** decade))
  const first = all.findLastIndex((at) => at <= min * 1.001)
  const last = Math.max(
    all.findIndex((at) => at >= max * 0.999),
    first + 1,
  )
  const ticks = all.slice(first, last + 1)
  const [low, high] = [Math.log10(all[first] as number), Math.log10(all[last] as number)]
  return {
    label,
    place: (value) => clamp((Math.log10(Math.max(value, 1e-12)) - low) / (high - low)),
    ticks: ticks.map((at) => ({ at, label: format(at) })),
  }
}

/** Percentiles so that each further nine takes the same room: 0, 90, 99, 99.9 … @param nines 2.5 ends halfway between the second and the third. */
export function ninesAxis(label: string, nines: number): Axis {
  // Where the nines are many there is no room for a half.
  const ticks = [
    0,
    ...(nines > 3 ? [] : [0.5]),
    ...Array.from({ length: Math.floor(nines) }, (_, index) => 1 - 10 ** -(index + 1)),
  ]
  return {
    label,
    place: (fraction) => clamp(-Math.log10(Math.max(1 - fraction, 10 ** -nines)) / nines),
    ticks: ticks.map((at) => ({ at, label: `${(at * 100).toLocaleString('en-US', { maximumFractionDigits: 4 })} %` })),
  }
}

/** 12,345 · 1,234 · 123 · 12.3 · 1.23 · 0.012, without zeros that say nothing. */
export function shortNumber(value: number): string {
  const size = Math.abs(value)
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3
  return value.toLocaleString('en-US', { maximumFractionDigits: digits })
}

function roundStep(step: number): number {
  const unit = 10 ** Math.floor(Math.log10(step))
  return [1, 2, 2.5, 5, 10].map((factor) => factor * unit).find((round) => round >= step * 0.999) ?? 10 * unit
}

function clamp(value: number): number {
  return Math.min(Math.max(value, 0), 1)
}
