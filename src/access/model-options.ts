import { InvalidArgumentError } from 'commander'
import { type ModelList, modelListOf, modelListProblem } from './model-lists.ts'

/** The help of `--models`. */
export const modelsHelp = 'the models that may be used, by id, or "b/*" for all that begin with b/; "*" for all'

/**
 * Reads a list of models from the command line; null for all models.
 * @throws InvalidArgumentError for an invalid list
 */
export function readModels(text: string): ModelList | null {
  // "none" could mean all models or no model.
  if (text.trim() === 'none') throw new InvalidArgumentError('The list of models is "none"; give "*" for all models.')
  const entries = text.split(',')
  const problem = modelListProblem(entries)
  if (problem !== undefined) throw new InvalidArgumentError(`The list of models ${problem}.`)
  return modelListOf(entries)
}

/** A list of models as `a,b/*` for tables and messages; null for all models. */
export function modelsText(models: ModelList | null): string | null {
  return models?.join(',') ?? null
}
