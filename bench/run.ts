/* Runs every benchmark, or those named on the command line: npm run bench -- startup */
const benchmarks = ['startup', 'relay', 'compose']
const wanted = process.argv.slice(2)
for (const name of wanted.length > 0 ? wanted : benchmarks) {
  if (!benchmarks.includes(name)) throw new Error(`There is no benchmark ${name}; there are ${benchmarks.join(', ')}.`)
  await import(`./${name}.ts`)
}
