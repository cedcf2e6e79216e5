import { expect, it } from 'vitest'
import { parseLimits, settingsLimits, storedAccountLimits, storedLimits } from '../src/limit-values.ts'

const standard = {
  photo_bytes: 1024 ** 3,
  characters: 1000,
  character_bytes: 1024 ** 3,
  keys: 1000,
  changes_per_day: 10_000,
  events: 1_000_000,
}

it('LIMITS extends the default limits, and "none" removes a limit', () => {
  expect(settingsLimits(undefined)).toStrictEqual(standard)
  expect(settingsLimits('plants=5')).toStrictEqual({ ...standard, plants: 5 })
  expect(settingsLimits('characters=0, plants=none')).toStrictEqual({ ...standard, characters: 0 })
  expect(
    settingsLimits(
      'photo_bytes=none,characters=none,character_bytes = none,keys=none,changes_per_day=none,events=none',
    ),
  ).toStrictEqual({})
  for (const wrong of ['plants=default', 'plants=None', 'plants=none=1', 'plants=', 'plants']) {
    expect(settingsLimits(wrong)).toMatch(
      /^The limit plants is ".*"; give a whole number from 0 to 1000000000000, or none\.$/,
    )
  }
})

it('the value of a limit is a number, "none" or "default"', () => {
  expect(parseLimits(['plants=5', 'characters=none', 'tokens_per_day=default'])).toStrictEqual({
    plants: 5,
    characters: 'none',
    tokens_per_day: 'default',
  })
  expect(parseLimits(['plants=nothing'])).toBe(
    'The limit plants is "nothing"; give a whole number from 0 to 1000000000000, or none, or default.',
  )
  expect(parseLimits(['plants=none', 'plants=default'])).toBe('The limit plants is given twice. Give it once.')
})

it('stored limits are read unchanged, and unknown values are ignored', () => {
  const json = '{"plants":5,"characters":"none","tokens_per_day":null,"chat_at_once":"default","speed":1}'
  expect(storedAccountLimits(json)).toStrictEqual({ plants: 5, characters: 'none' })
  expect(storedLimits(json)).toStrictEqual({ plants: 5 })
})
