/** PNG files of a screenshot's RGB pixels (PNG specification, 3rd edition) with 64 colours: a third of the bytes. */

import { crc32, deflateSync, inflateSync } from 'node:zlib'

const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex')
const COLOURS = 64

export function withPalette(png: Buffer): Buffer {
  const { width, height, pixels } = rgbOf(png)
  const counts = new Map<number, number>()
  for (let at = 0; at < pixels.length; at += 3) {
    const colour = pixels.readUIntBE(at, 3)
    counts.set(colour, (counts.get(colour) ?? 0) + 1)
  }
  const palette = paletteOf([...counts])
  const nearest = new Map([...counts.keys()].map((colour) => [colour, nearestOf(colour, palette)]))
  const rows = Buffer.alloc(height * (width + 1))
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      rows[y * (width + 1) + 1 + x] = nearest.get(pixels.readUIntBE((y * width + x) * 3, 3)) ?? 0
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 3], 8)
  const colours = Buffer.concat(palette.map(channelsOf).map((channels) => Buffer.from(channels)))
  const data = deflateSync(rows, { level: 9 })
  return Buffer.concat([SIGNATURE, chunk('IHDR', header), chunk('PLTE', colours), chunk('IDAT', data), chunk('IEND')])
}

const channelsOf = (colour: number): [number, number, number] => [colour >> 16, (colour >> 8) & 255, colour & 255]

/** Colours that many pixels have and that are far from the others, so that the text of a small badge keeps its own. */
function paletteOf(counts: readonly (readonly [colour: number, pixels: number])[]): number[] {
  const palette: number[] = []
  const losses = counts.map(([, pixels]) => pixels)
  while (palette.length < Math.min(COLOURS, counts.length)) {
    const [chosen] = counts[losses.indexOf(Math.max(...losses))] as readonly [number, number]
    palette.push(chosen)
    for (const [at, [colour, pixels]] of counts.entries()) {
      const loss = Math.sqrt(pixels) * distance(colour, chosen)
      losses[at] = palette.length === 1 ? loss : Math.min(losses[at] as number, loss)
    }
  }
  return palette
}

function distance(one: number, other: number): number {
  const [[r1, g1, b1], [r2, g2, b2]] = [channelsOf(one), channelsOf(other)]
  return (r1 - r2) ** 2 + (g1 - g2) ** 2 + (b1 - b2) ** 2
}

function nearestOf(colour: number, palette: readonly number[]): number {
  const distances = palette.map((other) => distance(colour, other))
  return distances.indexOf(Math.min(...distances))
}

function chunk(type: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const named = Buffer.concat([Buffer.from(type), data])
  const whole = Buffer.alloc(named.length + 8)
  whole.writeUInt32BE(data.length, 0)
  named.copy(whole, 4)
  whole.writeUInt32BE(crc32(named), named.length + 4)
  return whole
}

/** @param png 8-bit RGB, not interlaced, as Chromium writes screenshots */
function rgbOf(png: Buffer): { width: number; height: number; pixels: Buffer } {
  const parts: Buffer[] = []
  for (let at = SIGNATURE.length; at < png.length; at += 12 + png.readUInt32BE(at))
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT')
      parts.push(png.subarray(at + 8, at + 8 + png.readUInt32BE(at)))
  const [width, height, kind] = [png.readUInt32BE(16), png.readUInt32BE(20), png.readUInt16BE(24)]
  if (kind !== 0x0802) throw new Error('is no 8-bit RGB picture')
  const rows = inflateSync(Buffer.concat(parts))
  const length = width * 3
  const pixels = Buffer.alloc(height * length)
  for (let y = 0; y < height; y++) {
    const filter = rows[y * (length + 1)]
    for (let x = 0; x < length; x++) {
      const at = y * length + x
      const left = x < 3 ? 0 : (pixels[at - 3] as number)
      const above = y === 0 ? 0 : (pixels[at - length] as number)
      const corner = x < 3 || y === 0 ? 0 : (pixels[at - length - 3] as number)
      pixels[at] = (rows[at + y + 1] as number) + predicted(filter, left, above, corner)
    }
  }
  return { width, height, pixels }
}

/** Filters of a row: none, sub, up, average, Paeth. */
function predicted(filter: number | undefined, left: number, above: number, corner: number): number {
  if (filter === 1) return left
  if (filter === 2) return above
  if (filter === 3) return (left + above) >> 1
  if (filter !== 4) return 0
  const estimate = left + above - corner
  const [byLeft, byAbove, byCorner] = [left, above, corner].map((one) => Math.abs(estimate - one)) as [
    number,
    number,
    number,
  ]
  return byLeft <= byAbove && byLeft <= byCorner ? left : byAbove <= byCorner ? above : corner
}
