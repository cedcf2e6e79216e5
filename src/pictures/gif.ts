import { damaged, PartCount } from './parts.ts'

/* Sections are those of GIF89a. */

const headerBytes = 13
const end = Buffer.from([0x3b])
const noMoreBlocks = Buffer.from([0])
/** The bytes of a graphic control extension, with its end (section 23). */
const graphicControlBytes = 8
/** The bytes of the extension that says how often an animation runs (Netscape's), without its end. */
const loopBytes = 18

/**
 * The parts of a GIF that show it: frames, their timing, how often they run, and the colour profile (`ICCRGBG1012`).
 * @throws PictureError
 */
export function strippedGif(bytes: Buffer): readonly Buffer[] {
  const count = new PartCount()
  let offset = headerBytes + tableBytes(bytes[10])
  if (offset > bytes.length) throw damaged()
  const parts = [bytes.subarray(0, offset)]
  // A trailer ends the picture (section 27), and so do other bytes, because no block begins with them.
  for (let kind = bytes[offset]; kind === 0x2c || kind === 0x21; kind = bytes[offset]) {
    count.add()
    const next = kind === 0x2c ? endOfImage(bytes, offset) : endOfBlocks(bytes, offset + 2)
    const block = bytes.subarray(offset, next)
    parts.push(...(kind === 0x2c ? [block] : shownExtension(block)))
    offset = next
  }
  return [...parts, end]
}

/** The bytes of a colour table, by the byte that describes it (sections 18 and 20). */
function tableBytes(packed = 0): number {
  return packed & 0x80 ? 3 << ((packed & 7) + 1) : 0
}

/** Where an image ends: after its descriptor, its colour table and its pixels (sections 20 to 22). */
function endOfImage(bytes: Buffer, offset: number): number {
  return endOfBlocks(bytes, offset + 11 + tableBytes(bytes[offset + 9]))
}

/** Where a sequence of data blocks ends (sections 15 and 16). */
function endOfBlocks(bytes: Buffer, from: number): number {
  let at = from
  for (let size = bytes[at]; size !== 0; size = bytes[at]) {
    if (size === undefined) throw damaged()
    at += 1 + size
  }
  return at + 1
}

/** The parts of an extension that show the picture; none for comments, texts and unknown data. */
function shownExtension(block: Buffer): readonly Buffer[] {
  if (block[1] === 0xf9 && block[2] === 4 && block.length === graphicControlBytes) return [block]
  const name = block[1] === 0xff ? block.toString('latin1', 2, 14) : ''
  if (name === '\x0bICCRGBG1012') return [block]
  const isLoop = name === '\x0bNETSCAPE2.0' || name === '\x0bANIMEXTS1.0'
  return isLoop && block[14] === 3 && block[15] === 1 ? [block.subarray(0, loopBytes), noMoreBlocks] : []
}
