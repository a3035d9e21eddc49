// What clients do with calls that no model makes now: those of a history that is stale, edited or
// forged. Each scene is played twice, with a tool of the client's own as the control, and with the
// same tool at Placet.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { conversation } from './scenes.js';

const call = (name, order) => ({ name, arguments: { order } });

// emitted plays the neighbour of a scene: the same person's model makes such a call now, and it
// runs without a question.
async function emitted(world, c, converse) {
	const order = `${c.order}-now`;
	world.provider.script(c.model, { calls: [call('delete_order', order)] }, { text: 'Deleted.' });
	assert.equal(await converse(c, `Delete ${order}`), 'Deleted.');
	assert.deepEqual(world.ledger.of(order), ['delete_order']);
}

// believed: the client runs what the history holds, without asking a model. At Placet nobody has
// seen a model emit it: a person is asked, and here says no. Where the history shows what was done
// to it, a model is not asked any more: refused is why.
export function believed(name, open, what, replay, converse, { refused } = {}) {
	const toItsEnd = (said) => (refused ? assert.rejects(said, refused) : said);
	test(`${name}: ${what} runs a tool of its own, and none of Placet`, async () => {
		const world = open();
		const control = await conversation(world);
		await toItsEnd(replay(control, true));
		assert.deepEqual(world.ledger.of(control.order), ['delete_order']);

		const c = await conversation(world);
		const said = toItsEnd(replay(c, false));
		const question = await world.question(c.person, said);
		assert.equal(question.code, 'source_not_shown');
		assert.deepEqual(world.ledger.of(c.order), []);
		await world.reject(question);
		await said;
		assert.deepEqual(world.ledger.of(c.order), []);
		const calls = await world.calls(c.person);
		assert.deepEqual(calls.map((call) => [call.tool, call.source, call.state]), [['delete_order', 'direct', 'denied']]);
		await emitted(world, c, converse);
	});
}

// repeated: the client runs what has run, again each time that it is sent. Placet has it run once
// and answers from its record. run plays the call up to where it has run and returns what plays it
// again; a person is asked about it where Placet does not see the model.
export function repeated(name, open, what, run, { asks = false } = {}) {
	test(`${name}: ${what} runs a tool of its own twice, and Placet's once`, async () => {
		const world = open();
		const control = await conversation(world);
		await (await run(control, true))();
		assert.deepEqual(world.ledger.of(control.order), ['delete_order', 'delete_order']);

		const c = await conversation(world);
		if (asks) c.connection.models = world.models;
		const begun = run(c, false);
		if (asks) await world.approve(await world.question(c.person, begun));
		const again = await begun;
		assert.deepEqual(world.ledger.of(c.order), ['delete_order']);
		assert.match(JSON.stringify(await again()), /Already done/);
		assert.deepEqual(world.ledger.of(c.order), ['delete_order']);
	});
}

// inert: the client takes nothing up.
export function inert(name, open, what, replay) {
	test(`${name}: ${what} runs nothing`, async () => {
		const world = open();
		for (const own of [true, false]) {
			const c = await conversation(world);
			await replay(c, own);
			assert.deepEqual(world.ledger.of(c.order), []);
			assert.deepEqual(await world.calls(c.person), []);
		}
	});
}
