"""Training: data, losses, optimisers, Lightning modules and TensorBoard pages."""
