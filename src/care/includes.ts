import { Type } from '@sinclair/typebox'
import type { IncludedName, Includes } from '../plants/includes.ts'
import { query, type Scripts } from '../storage/scripts.ts'
import { unixSeconds } from '../time.ts'
import { civilDay } from './due.ts'
import { comparePlaces } from './due-list.ts'
import { type Rule, ruleColumns, zoneOf } from './rules.ts'
import { Care, careBody, DueOfPlant, dueBody } from './schemas.ts'

/** One statement reads the rules of at most this number of plants. */
const plantsPerStatement = 20

/** Makes the answers to `include=care` and `include=due`. */
export function careIncludes(scripts: Scripts): Includes {
  return {
    schemas: { care: Type.Array(Care), due: Type.Array(DueOfPlant) },
    async read(caller, plants, names) {
      const zone = await scripts.read(() => zoneOf(caller))
      const today = civilDay(zone, unixSeconds())
      const rules = await rulesOfPlants(scripts, plants)
      return plants.map(({ account, id }) => fieldsOf(rules.get(`${account} ${id}`) ?? [], today, names))
    },
  }
}

const placeholders = Array.from({ length: plantsPerStatement }, (_, index) => `$${index + 2}`)
const rulesOfSome = `
  SELECT r.account, ${ruleColumns}, archived
  FROM care_rules AS r JOIN plants ON plants.account = r.account AND plants.id = plant
  WHERE r.account = $1 AND plant IN (${placeholders.join()}) ORDER BY plant, kind`

interface PlantKey {
  readonly account: number
  readonly id: number
}

interface IncludedRule extends Rule {
  readonly account: number
  readonly archived: number
}

function fieldsOf(rules: readonly IncludedRule[], today: string, names: ReadonlySet<IncludedName>) {
  const due = rules.flatMap((rule) => (rule.due === null || rule.archived === 1 ? [] : [{ ...rule, due: rule.due }]))
  return {
    ...(names.has('care') ? { care: rules.map(careBody) } : {}),
    ...(names.has('due') ? { due: due.sort(comparePlaces).map((rule) => dueBody(rule, today)) } : {}),
  }
}

/** The rules of plants, by account and plant, each sorted by kind. */
async function rulesOfPlants(scripts: Scripts, plants: readonly PlantKey[]) {
  const rules: IncludedRule[] = []
  for (const [account, owned] of Map.groupBy(plants, (plant) => plant.account)) {
    for (let at = 0; at < owned.length; at += plantsPerStatement) {
      const ids = owned.slice(at, at + plantsPerStatement).map(({ id }) => id)
      // All statements have the same number of values, so that SQLite keeps one prepared statement.
      const values = [...ids, ...Array<number>(plantsPerStatement - ids.length).fill(ids[0] ?? 0)]
      rules.push(...(await scripts.readPortion(() => query<IncludedRule>(rulesOfSome, account, ...values))))
    }
  }
  return Map.groupBy(rules, ({ account, plant }) => `${account} ${plant}`)
}
