import type { PictureType } from '../../src/pictures/facts.ts'
import { onePixel, png, pngChunk } from './containers.ts'

/*
 * Small pictures with metadata in every place that their format has, made without the code under test. All words of metadata
 * contain `secret`.
 */

/** A word that no picture shows. */
export const secret = 'CANARY'

/** A picture of 3 × 2 pixels, one with metadata, and the same without all metadata but the orientation and the colour profile. */
export interface PictureCase {
  readonly type: PictureType
  readonly bare: Buffer
  readonly full: Buffer
  readonly shown: Buffer
}

const hex = (text: string) => Buffer.from(text.replaceAll(' ', ''), 'hex')
const latin1 = (text: string) => Buffer.from(text, 'latin1')
const join = (...parts: readonly (Buffer | string)[]) =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? latin1(part) : part)))

/** EXIF data with an orientation between a maker and a comment. */
function exifOf(orientation: number): Buffer {
  const entries = `010f 0002 00000007 00000100  0112 0003 00000001 000${orientation}0000  9286 0002 00000007 00000100`
  return join('MM\0*', hex('00000008 0003'), hex(entries.replaceAll(/\s+/g, '')), Buffer.alloc(220), secret)
}

/** EXIF data with an orientation alone. */
const onlyOrientation = (orientation: number) =>
  join('MM\0*', hex(`00000008 0001 0112 0003 00000001 000${orientation}0000 00000000`))

const profile = latin1('profile')

/** A segment of a JPEG, with its length. */
export const segment = (marker: number, data: Buffer | string) =>
  join(hex(`ff${marker.toString(16)}`), hex((data.length + 2).toString(16).padStart(4, '0')), data)

const jfif = segment(0xe0, 'JFIF\0\x01\x01\0\0\x01\0\x01\0\0')
/** A progressive JPEG, whose ten scans are separated by tables, made by libjpeg. */
const jpegPixels = hex(
  'ffdb00430050373c463c32504641465a55505f78c882786e6e78f5afb991c8ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffdb004301555a5a786978eb8282ebffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffc20011080002000303012200021101031101ffc40014000100000000000000000000000000000000ffc4001501010100000000000000000000000000000102ffda000c03010002100310000001093fffc40014100100000000000000000000000000000000ffda00080101000105027fffc40014110100000000000000000000000000000000ffda0008010301013f017fffc40014110100000000000000000000000000000000ffda0008010201013f017fffc40014100100000000000000000000000000000000ffda0008010100063f027fffc40014100100000000000000000000000000000000ffda0008010100013f217fffda000c03010002000300000010ff00ffc400161100030000000000000000000000000000000131ffda0008010301013f1050ffc40014110100000000000000000000000000000000ffda0008010201013f107fffc40014100100000000000000000000000000000000ffda0008010100013f107f',
)
const [soi, eoi] = [hex('ffd8'), hex('ffd9')]
const adobe = 'Adobe\0\x64\0\0\0\0\x01'
const jpeg: PictureCase = {
  type: 'image/jpeg',
  bare: join(soi, jfif, jpegPixels, eoi),
  full: join(
    ...[soi, segment(0xe0, `JFIF\0\x01\x02\x01\0\x48\0\x48\x01\x01${secret}`), segment(0xe0, `JFXX\0${secret}`)],
    ...[segment(0xe1, join('Exif\0\0', exifOf(6))), segment(0xe1, `http://ns.adobe.com/xap/1.0/\0${secret}`)],
    ...[segment(0xe2, join('ICC_PROFILE\0\x01\x01', profile)), segment(0xe2, `MPF\0${secret}`), hex('ffff')],
    ...[segment(0xed, `Photoshop 3.0\0${secret}`), segment(0xee, adobe + secret), segment(0xfe, secret)],
    ...[jpegPixels, segment(0xfe, secret), eoi, soi, secret, eoi, secret],
  ),
  shown: join(
    ...[soi, jfif, segment(0xe1, join('Exif\0\0', onlyOrientation(6)))],
    ...[segment(0xe2, join('ICC_PROFILE\0\x01\x01', profile)), segment(0xee, adobe), jpegPixels, eoi],
  ),
}

/** A chunk of a WebP, with its length and its padding. */
export const riff = (type: string, data: Buffer | string) => {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(data.length)
  return join(type, length, data, Buffer.alloc(data.length % 2))
}
const lossless = riff('VP8L', hex('2f024000002fa0906d04c85f7322bb476250466bfe5393434ddb066ca8f32fa746f43fa617'))
const extended = (flags: string) => riff('VP8X', hex(`${flags} 000000 020000 010000`))
const webp: PictureCase = {
  type: 'image/webp',
  bare: riff('RIFF', join('WEBP', lossless)),
  full: join(
    riff(
      'RIFF',
      join(
        ...['WEBP', extended('2c'), riff('ICCP', profile), lossless, riff('EXIF', join('Exif\0\0', exifOf(3)))],
        ...[riff('XMP ', secret), riff('odd ', `${secret}.`)],
      ),
    ),
    secret,
  ),
  shown: riff('RIFF', join('WEBP', extended('28'), riff('ICCP', profile), lossless, riff('EXIF', onlyOrientation(3)))),
}

const frame = hex('000000 000000 020000 010000 640000 00')
const animation = riff('ANIM', hex('00000000 0000'))
const animated: PictureCase = {
  type: 'image/webp',
  bare: riff('RIFF', join('WEBP', extended('02'), animation, riff('ANMF', join(frame, lossless)))),
  full: riff(
    'RIFF',
    join(
      ...[
        'WEBP',
        extended('c7'),
        animation,
        riff('ANMF', join(frame, riff('XYZ ', secret), lossless, riff('EXIF', secret))),
      ],
      ...[riff('EXIF', secret)],
    ),
  ),
  shown: riff('RIFF', join('WEBP', extended('02'), animation, riff('ANMF', join(frame, lossless)))),
}

const gifHead = join('GIF89a', hex('03000200820000 00ff5a28e15a50c35a78a55aa0875ac8695a000000000000'))
const gifPixels = hex('2c00000000030002000008 09 000104103080408180 00')
const control = hex('21f904 00 0a00 00 00')
const loop = join(hex('21ff0b'), 'NETSCAPE2.0', hex('03 01 0000'))
const gifProfile = join(hex('21ff0b'), 'ICCRGBG1012', hex('07'), profile, hex('00'))
const words = join(hex('06'), secret, hex('00'))
const gif: PictureCase = {
  type: 'image/gif',
  bare: join(gifHead, gifPixels, hex('3b')),
  full: join(
    ...[gifHead, hex('21fe'), words, loop, words, gifProfile, hex('21ff0b'), 'XMP DataXMP', words, control, gifPixels],
    ...[hex('2101 0c'), Buffer.alloc(12), words, control, gifPixels, hex('21aa'), words, hex('3b'), secret],
  ),
  shown: join(gifHead, loop, hex('00'), gifProfile, control, gifPixels, control, gifPixels, hex('3b')),
}

const [header = Buffer.alloc(0), ...pixels] = onePixel
const signature = hex('89504e470d0a1a0a')
const pngWith = (...chunks: readonly Buffer[]) => join(signature, header, ...chunks, ...pixels, pngChunk('IEND'))
const iccp = pngChunk('iCCP', join('name\0\0', profile))
const portable: PictureCase = {
  type: 'image/png',
  bare: png(),
  full: join(
    pngWith(
      ...[iccp, pngChunk('eXIf', exifOf(8)), pngChunk('tEXt', `Comment\0${secret}`), pngChunk('zTXt', secret)],
      ...[pngChunk('iTXt', `XML:com.adobe.xmp\0${secret}`), pngChunk('tIME', secret), pngChunk('prVt', secret)],
    ),
    secret,
  ),
  shown: pngWith(iccp, pngChunk('eXIf', onlyOrientation(8))),
}

/** A picture of each format. */
export const pictureCases: Readonly<Record<'JPEG' | 'WebP' | 'animated WebP' | 'GIF' | 'PNG', PictureCase>> = {
  JPEG: jpeg,
  WebP: webp,
  'animated WebP': animated,
  GIF: gif,
  PNG: portable,
}
