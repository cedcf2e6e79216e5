import { conversationCases, exampleCases, fieldCases, greetingCases, macroCases, playerCases } from './card-cases.ts'
import type { Case, Compared } from './case.ts'
import { keyCases, placeCases, recursionCases, timeCases } from './lore-cases.ts'
import { worldCases } from './world-cases.ts'

/** Every case of the comparison, area by area. */
export const cases: readonly Compared[] = Object.entries({
  'card fields': fieldCases(),
  examples: exampleCases(),
  greetings: greetingCases(),
  macros: macroCases(),
  'lore: keys': keyCases(),
  'lore: places': placeCases(),
  'lore: recursion and chance': recursionCases(),
  'lore: time': timeCases(),
  'lore: world books': worldCases(),
  'persona and note': playerCases(),
  conversation: conversationCases(),
} satisfies Record<string, readonly Case[]>).flatMap(([area, list]) => list.map((each) => ({ area, ...each })))
