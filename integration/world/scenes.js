// What every client shows: an agent loop of its own, a model that emits calls, and Placet before
// the tools. What happened is read from the ledger of the tools.
import assert from 'node:assert/strict';
import { test } from 'node:test';

let conversations = 0;

// conversation is somebody at the start of one: a person, and a model that only they ask for.
export async function conversation(world) {
	const number = ++conversations;
	const person = await world.person();
	return { person, model: `model-${number}`, order: `ord_${number}`, connection: { mcp: world.mcp, models: world.llm, token: person.token } };
}

const call = (name, order) => ({ name, arguments: { order } });
const last = (world, model) => JSON.stringify(world.provider.asked(model).at(-1));

// scenes are played with a client. converse connects it as somebody, has it do what a user says
// and returns the words that it ends with.
export function scenes(name, open, converse) {
	const play = (what, scene) => test(`${name}: ${what}`, async () => {
		const world = open();
		await scene(world, await conversation(world));
	});

	play('what the model calls runs once, and it reads the results', async (world, c) => {
		world.provider.script(c.model, { calls: [call('look_up', c.order)] }, { calls: [call('delete_order', c.order)] }, { text: 'Deleted.' });
		assert.equal(await converse(c, `Look ${c.order} up and delete it`), 'Deleted.');
		assert.deepEqual(world.ledger.of(c.order), ['look_up', 'delete_order']);
		assert.match(last(world, c.model), new RegExp(`delete_order of ${c.order} is done`));
		assert.equal(world.provider.left(c.model), 0);
		// Nobody was asked, since Placet saw the model emit it.
		const calls = await world.calls(c.person);
		assert.deepEqual(calls.map((call) => [call.tool, call.source, call.approval ?? 'unasked']).sort(), [['delete_order', 'witnessed', 'unasked'], ['look_up', 'witnessed', 'unasked']]);
	});

	play('calls of one answer run once each', async (world, c) => {
		const orders = ['a', 'b', 'c'].map((letter) => `${c.order}${letter}`);
		world.provider.script(c.model, { calls: orders.map((order) => call('delete_order', order)) }, { text: 'All deleted.' });
		assert.equal(await converse(c, `Delete ${orders}`), 'All deleted.');
		for (const order of orders) {
			assert.deepEqual(world.ledger.of(order), ['delete_order']);
			assert.match(last(world, c.model), new RegExp(`delete_order of ${order} is done`));
		}
	});

	play('a request that is sent again after an error calls once', async (world, c) => {
		world.provider.script(c.model, { status: 503 }, { calls: [call('delete_order', c.order)] }, { status: 503 }, { text: 'Deleted.' });
		assert.equal(await converse(c, `Delete ${c.order}`), 'Deleted.');
		assert.deepEqual(world.ledger.of(c.order), ['delete_order']);
		assert.equal(world.provider.asked(c.model).length, 4);
	});

	play('an answer of a model that Placet does not see is made anew, and calls no second time', async (world, c) => {
		c.connection.models = world.models;
		for (const words of ['Noted.', 'It is noted.']) {
			world.provider.script(c.model, { calls: [call('add_note', c.order)] }, { text: words });
			assert.equal(await converse(c, `Note ${c.order}`), words);
		}
		assert.deepEqual(world.ledger.of(c.order), ['add_note']);
	});

	play('a person says yes while the client waits', async (world, c) => {
		world.provider.script(c.model, { calls: [call('close_order', c.order)] }, { text: 'Closed.' });
		const said = converse(c, `Close ${c.order}`);
		const question = await world.question(c.person, said);
		assert.deepEqual(world.ledger.of(c.order), []);
		await world.approve(question);
		assert.equal(await said, 'Closed.');
		assert.deepEqual(world.ledger.of(c.order), ['close_order']);
		assert.match(last(world, c.model), new RegExp(`close_order of ${c.order} is done`));
	});

	play('a person says no while the client waits', async (world, c) => {
		world.provider.script(c.model, { calls: [call('close_order', c.order)] }, { text: 'I may not.' });
		const said = converse(c, `Close ${c.order}`);
		await world.reject(await world.question(c.person, said));
		assert.equal(await said, 'I may not.');
		assert.deepEqual(world.ledger.of(c.order), []);
		assert.match(last(world, c.model), /Rejected by a person/);
	});
}
