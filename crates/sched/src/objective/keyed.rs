//! Keys of items, to find them in the cycle before.

/// An item that is not there.
const NONE: u32 = u32::MAX;

/// Changes of the nodes of a matching.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The item of this node is gone; the last node takes its index.
    Gone(usize),
    /// An item has come; its node is added behind the others.
    Come(usize),
}

/// Nodes of a matching for the items of a cycle, by what they are called from cycle to cycle. Several may have
/// one name.
#[derive(Clone, Debug)]
pub(super) struct Keyed<K> {
    /// Names in ascending order, with their nodes; and with their items in the cycle that comes.
    known: Vec<(K, u32)>,
    coming: Vec<(K, u32)>,
    /// The node of each item, and the item of each node.
    nodes: Vec<u32>,
    items: Vec<u32>,
}

impl<K> Default for Keyed<K> {
    fn default() -> Self {
        Self {
            known: Vec::new(),
            coming: Vec::new(),
            nodes: Vec::new(),
            items: Vec::new(),
        }
    }
}

impl<K: Copy + Ord> Keyed<K> {
    /// The items of the next cycle, in its order. `step` is called with what comes and goes, in the order in which nodes change.
    ///
    /// O(items), if they are in ascending order; no allocation once as many were there.
    pub(super) fn update(&mut self, names: impl Iterator<Item = K>, mut step: impl FnMut(Step)) {
        self.coming.clear();
        self.coming.extend(names.zip(0..));
        if !self.coming.is_sorted() {
            self.coming.sort_unstable();
        }
        self.items.fill(NONE);
        let mut known = self.known.iter().peekable();
        for &(name, item) in &self.coming {
            while known.next_if(|(old, _)| *old < name).is_some() {}
            if let Some(&(_, node)) = known.next_if(|(old, _)| *old == name) {
                self.items[node as usize] = item;
            }
        }
        for node in (0..self.items.len()).rev() {
            if self.items[node] == NONE {
                self.items.swap_remove(node);
                step(Step::Gone(node));
            }
        }
        self.nodes.clear();
        self.nodes.resize(self.coming.len(), NONE);
        for (node, &item) in (0..).zip(&self.items) {
            self.nodes[item as usize] = node;
        }
        for item in 0..self.nodes.len() {
            if self.nodes[item] == NONE {
                self.nodes[item] = self.items.len() as u32;
                self.items.push(item as u32);
                step(Step::Come(item));
            }
        }
        std::mem::swap(&mut self.known, &mut self.coming);
        for (_, item) in &mut self.known {
            *item = self.nodes[*item as usize];
        }
    }

    /// The node of an item of the cycle.
    pub(super) fn node(&self, item: usize) -> usize {
        self.nodes[item] as usize
    }

    /// The item of a node.
    pub(super) fn item(&self, node: usize) -> usize {
        self.items[node] as usize
    }

    /// The items of all nodes, in their order.
    pub(super) fn items(&self) -> &[u32] {
        &self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removals, by node, and additions, by item.
    fn update(keyed: &mut Keyed<u64>, names: &[u64]) -> (Vec<usize>, Vec<usize>) {
        let (mut gone, mut come) = (Vec::new(), Vec::new());
        keyed.update(names.iter().copied(), |step| match step {
            Step::Gone(node) => gone.push(node),
            Step::Come(item) => come.push(item),
        });
        for item in 0..names.len() {
            assert_eq!(keyed.item(keyed.node(item)), item, "{names:?}");
        }
        assert_eq!(keyed.items().len(), names.len());
        (gone, come)
    }

    #[test]
    fn what_stays_keeps_its_node_and_only_changes_are_steps() {
        let mut keyed = Keyed::default();
        assert_eq!(update(&mut keyed, &[1, 3, 5]), (vec![], vec![0, 1, 2]));
        assert_eq!(update(&mut keyed, &[1, 3, 5]), (vec![], vec![]));
        let three = keyed.node(1);
        // 5 takes the node of 1; 2 is new, although it stands where 3 stood.
        assert_eq!(update(&mut keyed, &[2, 3, 5]), (vec![0], vec![0]));
        assert_eq!((keyed.node(1), keyed.node(2)), (three, 0));
        assert_eq!(update(&mut keyed, &[4]), (vec![2, 1, 0], vec![0]));
    }
}
